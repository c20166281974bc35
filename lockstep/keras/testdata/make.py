"""Writes the configs and summaries in this folder with real Keras 3.15 (tests/judged's environment).

shared_object_id entries are removed: they are memory addresses.
"""
import io
import json
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"]="3"; os.environ["CUDA_VISIBLE_DEVICES"]=""
import keras
from keras import layers as L, ops
from keras.src.saving import serialization_lib as sl


def strip(value):
    if isinstance(value, dict):
        return {key: strip(item) for key, item in value.items() if key != "shared_object_id"}
    return [strip(item) for item in value] if isinstance(value, list) else value

def dump(n, m):
    with sl.ObjectSharingScope():
        j=json.dumps(strip(sl.serialize_keras_object(m)))
    open(n+".json","w").write(j); 
    lines=[]; m.summary(print_fn=lambda s: lines.append(s)); open(n+".summary","w").write("\n".join(lines)+"\n")
keras.utils.clear_session()
i=keras.Input((4,)); x=L.Dense(3,activation="relu")(i); y=L.Dense(3)(i); z=x+y*2.0-1.0; z=z/3.0; z=-z; w=L.Add()([z,x]); w=L.Dropout(0.5)(w); w=L.BatchNormalization()(w); m=keras.Model(i,w); dump("f1",m)
keras.utils.clear_session()
i=keras.Input((5,),dtype="int32"); e=L.Embedding(10,4,mask_zero=True)(i); l=L.LSTM(6)(e); d=L.Dense(2,activation="softmax")(l); dump("f2",keras.Model(i,d))
keras.utils.clear_session()
s=keras.Sequential([keras.Input((28,28,1)),L.Conv2D(32,3,activation="relu"),L.MaxPooling2D(),L.Flatten(),L.Dense(64,activation="relu"),L.Dense(10)]); dump("s1",s)
keras.utils.clear_session()
a=keras.Input((4,),name="a"); b=keras.Input((4,),name="b"); sh=L.Dense(3); inner=keras.Sequential([keras.Input((3,)),L.Dense(2)]); fi=keras.Input((2,)); inner2=keras.Model(fi,L.Dense(2)(fi)); p=sh(a); q=sh(b); r=L.Concatenate()([p,q]); u=inner(p); v=inner2(u); m=keras.Model({"a":a,"b":b},[r,v]); dump("f3",m)
keras.utils.clear_session()
s=keras.Sequential([L.Dense(3),L.Dense(2)]); dump("s2",s)
keras.utils.clear_session()
i=keras.Input((6,4)); x=L.Bidirectional(L.LSTM(3,return_sequences=True))(i); x=L.TimeDistributed(L.Dense(2))(x); x=L.GRU(3)(x); x=L.LayerNormalization()(x); x=x[:,0:2]; x=ops.reshape(x,(-1,1,2)); x=L.GlobalAveragePooling1D()(x); dump("f4",keras.Model(i,x))
keras.utils.clear_session()
# all layer classes' default config
out={}
def cfg(o): 
    return sl.serialize_keras_object(o)
keras.utils.clear_session()
for n,f in dict(Dense=lambda:L.Dense(3),Conv1D=lambda:L.Conv1D(3,2),Conv2D=lambda:L.Conv2D(3,2),Conv3D=lambda:L.Conv3D(3,2),Conv1DTranspose=lambda:L.Conv1DTranspose(3,2),Conv2DTranspose=lambda:L.Conv2DTranspose(3,2),DepthwiseConv1D=lambda:L.DepthwiseConv1D(3),DepthwiseConv2D=lambda:L.DepthwiseConv2D(3),SeparableConv1D=lambda:L.SeparableConv1D(3,2),SeparableConv2D=lambda:L.SeparableConv2D(3,2),
 MaxPooling1D=lambda:L.MaxPooling1D(),MaxPooling2D=lambda:L.MaxPooling2D(),MaxPooling3D=lambda:L.MaxPooling3D(),AveragePooling1D=lambda:L.AveragePooling1D(2),AveragePooling2D=lambda:L.AveragePooling2D(2),AveragePooling3D=lambda:L.AveragePooling3D(2),
 **{g+p+d: (lambda c=getattr(L,g+p+d): c()) for g in ["Global"] for p in ["Max","Average"] for d in ["Pooling1D","Pooling2D","Pooling3D"]},
 Flatten=lambda:L.Flatten(),Reshape=lambda:L.Reshape((2,-1)),Permute=lambda:L.Permute((2,1)),RepeatVector=lambda:L.RepeatVector(3),Dropout=lambda:L.Dropout(0.5,noise_shape=(None,1),seed=3),SpatialDropout1D=lambda:L.SpatialDropout1D(.5),SpatialDropout2D=lambda:L.SpatialDropout2D(.5),SpatialDropout3D=lambda:L.SpatialDropout3D(.5),GaussianNoise=lambda:L.GaussianNoise(.5),GaussianDropout=lambda:L.GaussianDropout(.5),AlphaDropout=lambda:L.AlphaDropout(.5),
 Activation=lambda:L.Activation("swish"),ReLU=lambda:L.ReLU(6),LeakyReLU=lambda:L.LeakyReLU(),PReLU=lambda:L.PReLU(shared_axes=[1]),ELU=lambda:L.ELU(),Softmax=lambda:L.Softmax(),BatchNormalization=lambda:L.BatchNormalization(),LayerNormalization=lambda:L.LayerNormalization(),GroupNormalization=lambda:L.GroupNormalization(),UnitNormalization=lambda:L.UnitNormalization(),RMSNormalization=lambda:L.RMSNormalization(),SpectralNormalization=lambda:L.SpectralNormalization(L.Dense(2)),
 Add=lambda:L.Add(),Subtract=lambda:L.Subtract(),Multiply=lambda:L.Multiply(),Average=lambda:L.Average(),Maximum=lambda:L.Maximum(),Minimum=lambda:L.Minimum(),Concatenate=lambda:L.Concatenate(),Dot=lambda:L.Dot(1),
 ZeroPadding1D=lambda:L.ZeroPadding1D(),ZeroPadding2D=lambda:L.ZeroPadding2D(),ZeroPadding3D=lambda:L.ZeroPadding3D(),Cropping1D=lambda:L.Cropping1D(),Cropping2D=lambda:L.Cropping2D(1),Cropping3D=lambda:L.Cropping3D(),UpSampling1D=lambda:L.UpSampling1D(),UpSampling2D=lambda:L.UpSampling2D(),UpSampling3D=lambda:L.UpSampling3D(),Rescaling=lambda:L.Rescaling(1/255),Normalization=lambda:L.Normalization(),Normalization2=lambda:L.Normalization(mean=[1.,2.],variance=[3.,4.]),Embedding=lambda:L.Embedding(3,2),Masking=lambda:L.Masking(),LSTM=lambda:L.LSTM(3),GRU=lambda:L.GRU(3),SimpleRNN=lambda:L.SimpleRNN(3),LSTMCell=lambda:L.LSTMCell(3),GRUCell=lambda:L.GRUCell(3),SimpleRNNCell=lambda:L.SimpleRNNCell(3),RNN=lambda:L.RNN([L.LSTMCell(2),L.GRUCell(3)]),Bidirectional=lambda:L.Bidirectional(L.LSTM(3)),TimeDistributed=lambda:L.TimeDistributed(L.Dense(2)),MultiHeadAttention=lambda:L.MultiHeadAttention(2,3),Attention=lambda:L.Attention(),AdditiveAttention=lambda:L.AdditiveAttention(),GroupQueryAttention=lambda:L.GroupQueryAttention(2,4,2),EinsumDense=lambda:L.EinsumDense("ab,bc->ac",3),Identity=lambda:L.Identity(),ActivityRegularization=lambda:L.ActivityRegularization(0.1),InputLayer=lambda:L.InputLayer((3,)),CategoryEncoding=lambda:L.CategoryEncoding(3),Discretization=lambda:L.Discretization([0.,1.]),Resizing=lambda:L.Resizing(3,4),CenterCrop=lambda:L.CenterCrop(3,4)).items():
    try: out[n]=cfg(f())
    except Exception as e: print(n,e)
json.dump(strip(out),open("classes.json","w"))
